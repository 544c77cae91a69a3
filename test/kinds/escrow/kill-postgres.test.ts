// The ledger kill tests on PostgreSQL: the same tests and program with another store.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('./kill-ledger.test.ts');

export {};
