// The end-to-end files about commands once more, on PostgreSQL: the same tests, the same program, another store.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('../e2e/command-life.test.ts');
await import('../e2e/command-faults.test.ts');
await import('../e2e/escrow.test.ts');

export {};
