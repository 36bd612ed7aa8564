import { type Command, Option } from 'commander';
import type { LogLevel } from '#config';
import { createLogger } from '#server/process/log.ts';
import type { CommandContext } from '../context.ts';
import { loadGuests } from '../load-bridge.ts';
import { logLevelOption } from '../options.ts';
import { terminationSignal } from '../process.ts';

interface MetadataAgentOptions {
  readonly config: string;
  readonly logLevel?: LogLevel;
}

/** `saltbridge metadata-agent`: tells Nova and the master which instance asks. */
export function addMetadataAgentCommand(program: Command, context: CommandContext): void {
  program
    .command('metadata-agent')
    .description('answer the metadata requests of instances beside their network')
    .addOption(
      new Option(
        '--config <file>',
        'sockets, services and instances; see docs/guests.md',
      ).makeOptionMandatory(),
    )
    .addOption(logLevelOption())
    .action((options: MetadataAgentOptions) => runAgent(options, context));
}

async function runAgent(
  { config, logLevel = 'info' }: MetadataAgentOptions,
  { stderr }: CommandContext,
): Promise<void> {
  const log = createLogger(logLevel, stderr).child({ component: 'metadata-agent' });
  const terminated = terminationSignal();
  const closing = new AbortController();
  const { loadAgentOptions, startMetadataAgent, startRelay } = await (
    await loadGuests()
  ).loadMetadataAgent();
  const { relay: relayed, ...options } = await loadAgentOptions(config, closing.signal);
  const agent = await startMetadataAgent({ ...options, log, now: Date.now });
  const { find, networksOf } = options;
  const relay = relayed && (await startRelay(relayed, { find, networksOf, log }));
  await terminated;
  closing.abort();
  await Promise.all([agent.close(), relay?.close()]);
}
