// What the rest may use of the HTTP face.
export { createHttpFace } from './face.ts';
export type { HttpFace, HttpFaceOptions, Mounted, MountHandler, MountOptions } from './face.ts';
export { originHeader } from './credentials.ts';
export { httpLimits } from './settings.ts';
export type { HttpLimits } from './settings.ts';
export { openApiDocument } from './openapi.ts';
export { routeOf } from './routes.ts';
export type { TcpAddress } from './listeners.ts';
