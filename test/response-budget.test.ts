// Response budgets and cursors (response-budget.ts) on SQLite.
import { testBudgets } from './response-budget.ts';

testBudgets('sqlite');
