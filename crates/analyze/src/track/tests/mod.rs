mod causes;
mod hostile;
mod loss;
mod messages;
mod pairing;
mod sightings;
