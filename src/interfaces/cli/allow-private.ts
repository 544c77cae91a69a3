// The header with which the command line allows private addresses for one call.
export const allowPrivateHeader = 'x-errand-allow-private';
