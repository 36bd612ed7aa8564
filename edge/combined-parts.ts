import type { MetricFamily, RpcTable } from '#master';
import type { EdgePart } from './parts.ts';

/**
 * Combined contributions of several parts (modules) of an extension, without the methods `start`
 * and `close`.
 */
type Combined = Omit<EdgePart, 'close' | 'start'>;

/**
 * Combines the contributions of several parts (modules) of an extension.
 * @throws TypeError if more than one part contributes a file backend, more than one handles
 * signals, or more than one contributes pillar data
 */
export function combined(parts: readonly EdgePart[]): Combined {
  const rpc: RpcTable = Object.assign({}, ...parts.map((part) => part.rpc ?? {}));
  const metrics = (): readonly MetricFamily[] => parts.flatMap((part) => part.metrics?.() ?? []);
  const files = onlyOne(parts.flatMap((part) => part.files ?? []));
  const intake = onlyOne(parts.flatMap((part) => part.intake ?? []));
  const pillar = onlyOne(parts.flatMap((part) => part.pillar ?? []));
  const returnRows: EdgePart['returnRows'] = (jid, result) =>
    parts.flatMap((part) => part.returnRows?.(jid, result) ?? []);
  return {
    rpc,
    metrics,
    ...(parts.some((part) => part.returnRows !== undefined) ? { returnRows } : {}),
    ...(files === undefined ? {} : { files }),
    ...(intake === undefined ? {} : { intake }),
    ...(pillar === undefined ? {} : { pillar }),
  };
}

/** Starts the parts of a site or centre one after the other. */
export async function startAll(parts: readonly EdgePart[]): Promise<void> {
  for (const part of parts) await part.start?.();
}

function onlyOne<T>(items: readonly T[]): T | undefined {
  if (items.length > 1)
    throw new TypeError(
      'a site or centre must have at most one source of files, one source of pillar and one handler of signals; remove the second one',
    );
  return items[0];
}
