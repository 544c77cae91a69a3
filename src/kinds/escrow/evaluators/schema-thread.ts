// The thread behind SchemaChecks: one result per delivery.
import { runTasks } from '../../../runtime/thread.ts';
import type { SchemaResult, SchemaRequest } from './schema-checks.ts';
import { schemaErrors } from './schema.ts';

runTasks(checkDelivery);

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
