// The evaluation kill test on PostgreSQL.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('./evaluation-kill.test.ts');

export {};
