import type { Command } from 'commander';
import { InvalidArgumentError } from 'commander';
import type { LocalClientStatus } from '#salt-api/localclient/index.ts';
import type { CommandContext } from '../context.ts';
import { withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine } from '../terminal.ts';

interface LocalClientOptions {
  readonly configDir: string;
  readonly json?: boolean;
  readonly port?: number;
}

/**
 * Defines `saltbridge localclient`, which manages the service for Salt's own Python clients on the
 * master's host.
 */
export function defineLocalClient(command: Command, context: CommandContext): void {
  withCommonOptions(
    command
      .command('enable')
      .description(
        "serve Salt's own clients on a loopback port, and write their client configuration",
      )
      .option('--port <number>', 'port on 127.0.0.1 (default: 4507; 0: any free port)', toPort),
  ).action(({ port, ...options }: LocalClientOptions) =>
    call('enable', port === undefined ? {} : { port }, options, context),
  );
  withCommonOptions(
    command
      .command('disable')
      .description(
        "stop serving Salt's own clients, and remove the configuration and key written for them",
      ),
  ).action((options: LocalClientOptions) => call('disable', {}, options, context));
  withCommonOptions(
    command
      .command('status')
      .description("show whether the master serves Salt's own clients, and at which port"),
  ).action((options: LocalClientOptions) => call('status', {}, options, context));
}

function toPort(text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port;
  throw new InvalidArgumentError('the port must be a number from 0 to 65535');
}

async function call(
  method: 'disable' | 'enable' | 'status',
  parameters: object,
  { configDir, json }: LocalClientOptions,
  { openExtension, stdout }: CommandContext,
): Promise<void> {
  const extension = await openExtension(configDir, 'localclient');
  const status = await extension.call<LocalClientStatus>(method, parameters);
  if (json) await printJson(stdout, status);
  else await printLine(stdout, formatStatus(status));
}

function formatStatus(status: LocalClientStatus): string {
  const { isEnabled, port, problem, eventReaders, refused } = status;
  if (!isEnabled) return "disabled: Salt's own clients are not served";
  if (port === undefined) {
    return `enabled, but not served: ${escapeName(problem ?? 'see the log of the master')}`;
  }
  const directory = escapeName(status.directory);
  return [
    `enabled    127.0.0.1:${port}`,
    `directory  ${directory}`,
    `use        salt -c ${directory} …, or SALT_CLIENT_CONFIG=${directory}/master`,
    `clients    ${eventReaders} connected to the event socket; ${refused} requests rejected`,
  ].join('\n');
}
