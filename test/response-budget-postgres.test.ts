// Response budgets and cursors (response-budget.ts) on PostgreSQL.
import { testBudgets } from './response-budget.ts';

testBudgets('postgres');
