// Repeats the end-to-end tests of kill -9 on PostgreSQL.
import { importInDeepRun } from '../helpers/deep.ts';

process.env.ERRAND_TEST_STORE = 'postgres';
await import('../e2e/kill-steps.test.ts');
await importInDeepRun({ 'bursts of commands': () => import('../e2e/command-burst.test.ts') });
