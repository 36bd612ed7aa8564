import type { Command } from 'commander';
import type { MasterEvent } from '#master';
import type { CommandContext } from '../context.ts';
import { configOption, jsonOption, logLevelOption, parseCount } from '../options.ts';
import { formatJson } from '../output/value-text.ts';
import { escapeName, printLine } from '../terminal.ts';

interface EventsOptions {
  readonly configDir: string;
  readonly json?: boolean;
  readonly count?: number;
}

/**
 * Defines `saltbridge events`, which corresponds to `salt-run state.event` [salt modules/state.py].
 */
export function defineEvents(command: Command, context: CommandContext): void {
  command
    .argument('[pattern]', 'tags to print, as a glob (default: all)')
    .addOption(configOption())
    .option('-n, --count <n>', 'exit after n events', parseCount)
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async (pattern: string | undefined, options: EventsOptions) => {
      const api = await context.openApi(options.configDir);
      const signal = context.interruption();
      const request = pattern === undefined ? {} : { match: pattern };
      const format = options.json ? formatEventJson : formatEventLine;
      let left = options.count ?? Number.POSITIVE_INFINITY;
      try {
        for await (const event of await api.events.subscribe(request, signal)) {
          await printLine(context.stdout, format(event));
          left -= 1;
          if (left === 0) return;
        }
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    });
}

function formatEventLine({ tag, data }: MasterEvent): string {
  return `${escapeName(tag)}\t${formatJson(data)}`;
}

function formatEventJson({ tag, data }: MasterEvent): string {
  return formatJson({ tag, data });
}
