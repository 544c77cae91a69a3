// The stored input of a command job.
import type { z } from 'zod';
import type { readyCheck, terminalSize } from '../../contracts/command.ts';

/** `job.input` for kind command. It contains no secrets: secrets are names, and the caller's environment is in a file. */
export interface CommandInput {
  /** Either this or `argv` is set. */
  command?: string;
  argv?: string[];
  cwd: string;
  /** The caller's environment (environments.ts), and the node that stores it. */
  environment?: { id: string; node: string };
  /** Names of the caller's variables that the command does not receive. */
  withheld?: string[];
  /** Replaces the caller's environment. Used by jobs that other kinds submit and by jobs of earlier versions. */
  callerEnv?: Record<string, string>;
  env: Record<string, string>;
  secrets: string[];
  stdin: 'none' | 'open' | { text: string };
  tty?: z.infer<typeof terminalSize>;
  streams: 'merged' | 'split';
  ready?: z.infer<typeof readyCheck>;
  maxOutputBytes?: number;
  ring?: boolean;
}
