import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Command } from 'commander';

/** `saltbridge demo`. */
export function defineDemo(command: Command): void {
  command.action(async () => {
    // With it comes all that serves minions, which no other command needs.
    const { createDemoOutput, runDemo } = await import('../demo.ts');
    // Short: the local socket's path is bounded.
    const directory = await mkdtemp(path.join(tmpdir(), 'sb-'));
    try {
      await runDemo(createDemoOutput(process.stdout, untilInterrupted), directory);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });
}

function untilInterrupted(): Promise<void> {
  return new Promise((resolve) => {
    const keepAlive = setInterval(() => {}, 60_000);
    const end = (): void => {
      clearInterval(keepAlive);
      resolve();
    };
    process.once('SIGINT', end);
    process.once('SIGTERM', end);
  });
}
