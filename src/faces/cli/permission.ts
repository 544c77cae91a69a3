// How the command line tells its server that the owner allows private addresses in one call.
export const allowPrivateHeader = 'x-errand-allow-private';
