import type { Command } from 'commander';
import type { MasterStatus } from '#master';
import type { CommandContext } from '../context.ts';
import { withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine } from '../terminal.ts';
import { clusterLines } from './cluster.ts';

interface StatusOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

/** Defines `saltbridge status`, which shows the state of the running master. */
export function defineStatus(command: Command, context: CommandContext): void {
  withCommonOptions(command).action(async ({ configDir, json }: StatusOptions) => {
    const api = await context.openApi(configDir);
    const status = await api.status();
    if (json) await printJson(context.stdout, status);
    else await printLine(context.stdout, formatStatus(status));
  });
}

function formatStatus(status: MasterStatus): string {
  const keys = Object.entries(status.keys).map(([state, count]) => `${count} ${state}`);
  const counters = Object.entries(status.counters).sort(([left], [right]) =>
    left < right ? -1 : 1,
  );
  return [
    `master       ${escapeName(status.id)} (saltbridge ${status.version}, pid ${status.pid})`,
    `since        ${new Date(status.startedAt).toISOString()}`,
    ...status.transports.map(formatTransport),
    ...(status.storeFull
      ? ['store        the disk of the store is full: no new data can be stored']
      : []),
    ...(status.aclMode === 'learn'
      ? ['acl          learning mode: minions may perform actions that no rule permits']
      : []),
    ...(status.auditFull
      ? [
          'audit        the audit log cannot be written: records are buffered, and lost if this continues',
        ]
      : []),
    ...(status.cluster === undefined ? [] : clusterLines(status.cluster)),
    `keys         ${keys.join(', ')}`,
    ...Object.entries(status.extensions ?? {}).flatMap(([name, figures]) =>
      Object.entries(figures).map(([what, value]) => formatFigure(name, what, value)),
    ),
    ...counters.map(([name, count]) => `counter      ${escapeName(name)}: ${count}`),
  ].join('\n');
}

function formatFigure(extension: string, what: string, value: number): string {
  const rounded = Math.round(value * 10) / 10;
  return `${escapeName(extension).padEnd(12)} ${escapeName(what)}: ${rounded}`;
}

function formatTransport(status: MasterStatus['transports'][number]): string {
  const { transport, requestPort, publishPort, subscribers } = status;
  return `${escapeName(transport).padEnd(12)} ${requestPort} for requests, ${publishPort} for publishing, ${subscribers} subscribers`;
}
