// The transitions of the ledger killed once more, on PostgreSQL: the same tests, the same program, another store.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('./kill-ledger.test.ts');

export {};
