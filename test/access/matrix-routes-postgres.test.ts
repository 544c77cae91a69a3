// The authorization matrix (matrix.ts): routes of dialects and keys that ended, on PostgreSQL.
import { testRoutes } from './matrix.ts';

testRoutes('postgres');
