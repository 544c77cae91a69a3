// The thread behind SchemaChecks: it posts `ready`, then one result per delivery.
import { parentPort } from 'node:worker_threads';
import type { SchemaResult, SchemaRequest } from './schema-checks.ts';
import { schemaErrors } from './schema.ts';

parentPort!.on('message', (request: SchemaRequest) =>
  parentPort!.postMessage(checkDelivery(request)),
);
parentPort!.postMessage('ready');

function checkDelivery({ schema, bytes }: SchemaRequest): SchemaResult {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    return { json: false };
  }
  try {
    return { json: true, errors: schemaErrors(schema, value) };
  } catch (error) {
    return { broken: `failed: ${(error as Error).message}` };
  }
}
