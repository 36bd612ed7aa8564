import { type Command, Option } from 'commander';
import type { LogLevel } from '#config';
import { createLogger } from '#server/process/log.ts';
import { terminationSignal } from '#server/process/signals.ts';
import type { CommandContext } from '../context.ts';
import { loadGuests } from '../load-bridge.ts';
import { logLevelOption } from '../options.ts';

interface MetadataAgentOptions {
  readonly config: string;
  readonly logLevel?: LogLevel;
}

/**
 * Defines `saltbridge metadata-agent`, a proxy for metadata requests of instances. It determines
 * which instance sent a request, and forwards the request to Nova or the master with the identity
 * of the instance.
 */
export function defineMetadataAgent(command: Command, context: CommandContext): void {
  command
    .addOption(
      new Option(
        '--config <file>',
        'configuration file of the agent, see docs/metadata-agent.md',
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
