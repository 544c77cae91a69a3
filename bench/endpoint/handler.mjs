// The no-op handler of the benchmarks. Its first line marks the end of the cold start.
import { writeFileSync } from 'node:fs';

if (process.env.BENCH_MARK) writeFileSync(process.env.BENCH_MARK, String(Date.now()));

export default (job) => job.input;
