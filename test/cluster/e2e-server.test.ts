// Repeats the end-to-end tests of the server lifecycle on PostgreSQL. test/cluster/start.test.ts covers what differs there.
import { importInDeepRun } from '../helpers/deep.ts';

process.env.ERRAND_TEST_STORE = 'postgres';
await importInDeepRun({ 'the server lifecycle': () => import('../e2e/server.test.ts') });
