// The entry point. The build bundles start.ts with its imports (scripts/bundle.ts).
import { start } from './start.ts';

await start(process.argv.slice(2));
