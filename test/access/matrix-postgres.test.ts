// The authorization matrix (matrix.ts): operations on PostgreSQL.
import { testOperations } from './matrix.ts';

testOperations('postgres');
