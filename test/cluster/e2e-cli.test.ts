// Repeats the command line and MCP tests on PostgreSQL. Both interfaces only use operations, so `npm test` runs them on SQLite.
import { importInDeepRun } from '../helpers/deep.ts';

process.env.ERRAND_TEST_STORE = 'postgres';
await importInDeepRun({
  'the command line': () => import('../e2e/cli.test.ts'),
  'following output': () => import('../e2e/cli-follow.test.ts'),
  'the MCP interfaces': () => import('../e2e/mcp.test.ts'),
  'the stdio bridge': () => import('../e2e/bridges.test.ts'),
});
