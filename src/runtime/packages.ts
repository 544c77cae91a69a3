// Loads packages and Node modules that only some calls need on first use, so that an idle server stays small and a
// command starts fast. `require` keeps the callers synchronous.
import { createRequire } from 'node:module';
import type { FormatsPlugin } from 'ajv-formats';

const require = createRequire(import.meta.url);

function loadOnFirstUse<T>(name: string): () => T {
  let loaded: T | undefined;
  return () => (loaded ??= require(name) as T);
}

export const re2js = loadOnFirstUse<typeof import('re2js')>('re2js');
export const tldts = loadOnFirstUse<typeof import('tldts')>('tldts');
export const htmlparser2 = loadOnFirstUse<typeof import('htmlparser2')>('htmlparser2');
export const diffPackage = loadOnFirstUse<typeof import('diff')>('diff');
export const nobleSha3 =
  loadOnFirstUse<typeof import('@noble/hashes/sha3.js')>('@noble/hashes/sha3.js');

export const ajv = loadOnFirstUse<typeof import('ajv')>('ajv');
export const ajv2019 = loadOnFirstUse<typeof import('ajv/dist/2019.js')>('ajv/dist/2019.js');
export const ajv2020 = loadOnFirstUse<typeof import('ajv/dist/2020.js')>('ajv/dist/2020.js');
export const ajvFormats = loadOnFirstUse<FormatsPlugin>('ajv-formats');

/** Node modules that cost several ms of startup. */
export const nodeCrypto = loadOnFirstUse<typeof import('node:crypto')>('node:crypto');
export const childProcess =
  loadOnFirstUse<typeof import('node:child_process')>('node:child_process');

/**
 * `import … from 'node:http'` evaluates every export, and one of them loads a whole HTTP client (WebSocket): 35 ms and
 * 6 MB. `require` does not.
 */
export const nodeHttp = loadOnFirstUse<typeof import('node:http')>('node:http');
export const nodeHttps = loadOnFirstUse<typeof import('node:https')>('node:https');
