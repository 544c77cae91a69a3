// The authorization matrix (matrix.ts): routes of dialects and keys that ended, on SQLite.
import { testRoutes } from './matrix.ts';

testRoutes('sqlite');
