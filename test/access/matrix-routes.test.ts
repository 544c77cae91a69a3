// The authorization matrix (matrix.ts): dialect routes and expired keys, on SQLite.
import { testRoutes } from './matrix.ts';

testRoutes('sqlite');
