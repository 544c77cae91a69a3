// Repeats the end-to-end tests of commands and escrow on PostgreSQL. Commands write their output and exit records to files,
// and test/kinds/command covers their tables on both stores, so `npm test` runs only the escrow part.
import { importInDeepRun } from '../helpers/deep.ts';

process.env.ERRAND_TEST_STORE = 'postgres';
await import('../e2e/escrow.test.ts');
await importInDeepRun({
  'the life of a command': () => import('../e2e/command-life.test.ts'),
  'faults of commands': () => import('../e2e/command-faults.test.ts'),
});
