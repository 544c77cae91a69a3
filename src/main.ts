// The entry point of the program and of its bundle (scripts/bundle.ts).
import { start } from './start.ts';

await start(process.argv.slice(2));
