mod causes;
mod loss;
mod messages;
mod pairing;
