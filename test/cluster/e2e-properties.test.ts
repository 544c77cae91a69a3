// Repeats the generated requests on PostgreSQL.
process.env.ERRAND_TEST_STORE = 'postgres';
await import('../properties.test.ts');

export {};
