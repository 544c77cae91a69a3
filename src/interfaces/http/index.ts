// The public exports of the HTTP interface.
export { createHttpInterface } from './http-interface.ts';
export type { HttpInterface, HttpInterfaceOptions } from './http-interface.ts';
