/**
 * Reports to the centre on which grains the pillars of a site depend. Appends a log entry if the
 * report differs from the previous one.
 */

import type { WireMap } from '#minion-protocol';
import type { EdgePart, SiteContext } from '../parts.ts';
import { inputsKind, maxInputGrains } from './inputs-entry.ts';

/** Interval at which the site checks whether it must append another report, in milliseconds. */
const compareMs = 600_000;

/**
 * Part of the extension `site` that reports how many pillars the site has compiled, and which
 * grains make them differ. It looks for changes when the site connects, and every ten minutes.
 */
export function openInputsReport({ host, link, log }: SiteContext): EdgePart {
  let last = '';
  let running: Promise<void> | undefined;
  const report = async (): Promise<void> => {
    const { shared, own, grains } = await host.master().pillar.inputs();
    const listed = grains
      .filter(({ grain }) => grain.length <= 255)
      .slice(0, maxInputGrains)
      .map((it): WireMap => ({ ...it }));
    const value: WireMap = { shared, own, grains: listed };
    const text = JSON.stringify(value);
    if (text === last) return;
    await log.append({ class: 'fact', kind: inputsKind, value });
    last = text;
  };
  const begin = (): void => {
    if (host.closing.aborted) return;
    running ??= report()
      .catch((err: unknown) => {
        host.logger.warn(
          { err },
          "cannot send the centre a list of the grains that this site's pillars use",
        );
      })
      .finally(() => {
        running = undefined;
      });
  };
  link.onChange(({ isConnected }) => {
    if (isConnected) begin();
  });
  let timer: NodeJS.Timeout | undefined;
  return {
    start: () => {
      timer = setInterval(begin, compareMs).unref();
    },
    close: async () => {
      clearInterval(timer);
      await running;
    },
  };
}
