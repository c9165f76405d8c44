mod causes;
mod damage;
mod ground_truth;
mod hostile;
mod loss;
mod messages;
mod pairing;
mod sightings;
