mod causes;
mod damage;
mod hostile;
mod loss;
mod messages;
mod pairing;
mod sightings;
