// The authorization matrix (matrix.ts): operations on SQLite. With --write it writes the whole table.
import { isWriting, testOperations, testRoutes } from './matrix.ts';

testOperations('sqlite');
if (isWriting) testRoutes('sqlite');
