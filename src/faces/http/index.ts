// What the rest may use of the HTTP face.
export { createHttpFace } from './face.ts';
export type { HttpFace, HttpFaceOptions } from './face.ts';
