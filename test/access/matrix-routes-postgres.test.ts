// The authorization matrix (matrix.ts): dialect routes and expired keys, on PostgreSQL. Routes only call operations, whose
// matrix runs on PostgreSQL in `npm test` (matrix-postgres.test.ts).
import { importInDeepRun } from '../helpers/deep.ts';
import { testRoutes } from './matrix.ts';

await importInDeepRun({ 'every dialect route': async () => testRoutes('postgres') });
