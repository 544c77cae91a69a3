// Compiles the contracts with the npm build of solc and writes ABI and bytecode to the files that the adapter and the tests
// read. Builds are reproducible: `--check` verifies that the checked-in files match the sources.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

interface Artifact {
  contract: string;
  compiler: string;
  sourceSha256: string;
  abi: unknown[];
  bytecode: string;
}

interface SolcOutput {
  errors?: { severity: string; formattedMessage: string }[];
  contracts: Record<
    string,
    Record<string, { abi: unknown[]; evm: { bytecode: { object: string } } }>
  >;
}

const root = join(import.meta.dirname, '..');
const targets = [
  { source: 'ErrandEscrow.sol', output: 'src/kinds/escrow/settlement/evm/contract.json' },
  { source: 'test/TestToken.sol', output: 'test/kinds/escrow/settlement/evm/TestToken.json' },
  { source: 'test/HostileToken.sol', output: 'test/kinds/escrow/settlement/evm/HostileToken.json' },
  { source: 'test/FaultyEscrow.sol', output: 'test/kinds/escrow/settlement/evm/FaultyEscrow.json' },
];

/** Compiles one source file without the metadata hash, so that comments and paths do not change the bytecode. */
export function compile(source: string): Artifact {
  const require = createRequire(join(root, 'test/package.json'));
  const solc = require('solc') as { compile(input: string): string; version(): string };
  const text = readFileSync(join(root, 'contracts', source), 'utf8');
  const contract = source.replace(/^.*\//, '').replace('.sol', '');
  const input = {
    language: 'Solidity',
    sources: { [source]: { content: text } },
    settings: {
      evmVersion: 'paris',
      optimizer: { enabled: true, runs: 200 },
      metadata: { bytecodeHash: 'none', appendCBOR: false },
      outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
    },
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input))) as SolcOutput;
  const errors = (output.errors ?? []).filter(({ severity }) => severity === 'error');
  if (errors.length > 0) throw new Error(errors.map((e) => e.formattedMessage).join('\n'));
  const built = output.contracts[source]![contract]!;
  return {
    contract,
    compiler: solc.version().replace(/\.mod.*|\.Emscripten.*/, ''),
    sourceSha256: createHash('sha256').update(text).digest('hex'),
    abi: built.abi,
    bytecode: `0x${built.evm.bytecode.object}`,
  };
}

export const artifactText = (artifact: Artifact): string =>
  `${JSON.stringify(artifact, null, 2)}\n`;
export const contractTargets = targets;

if (import.meta.main) {
  const check = process.argv.includes('--check');
  for (const { source, output } of targets) {
    const text = artifactText(compile(source));
    const path = join(root, output);
    if (!check) writeFileSync(path, text);
    else if (readFileSync(path, 'utf8') !== text) {
      console.error(
        `${output} is not what contracts/${source} compiles to: node scripts/contracts.ts`,
      );
      process.exitCode = 1;
    }
  }
}
