/**
 * A process that shares a master: `member.js <directory of its configuration>`. It executes the
 * orders in messages of its parent; see {@link Member} in members.ts.
 */

import { loadSaltConfig } from '#config';
import { createBridge } from '#guests';
import { createLogger } from '#master';
import { joinMaster } from '#server';
import type { MemberMessage, Wish } from './members.ts';

const [, , directory = ''] = process.argv;
const config = await loadSaltConfig(directory);
const bridge = createBridge();

const shared = joinMaster({
  config,
  extensions: [bridge],
  logger: createLogger('info'),
  onRole: (role) => sendMessage({ type: 'role', role }),
});

function sendMessage(message: MemberMessage): void {
  process.send?.(message);
}

/** Returns a method by its path in the interface, for example `jobs.publish`. */
function methodOf(path: string): (...args: readonly unknown[]) => unknown {
  const names = path.split('.');
  const last = names.pop() ?? '';
  let owner: object = shared;
  for (const name of names) owner = Reflect.get(owner, name);
  const method: unknown = Reflect.get(owner, last);
  if (typeof method !== 'function') throw new TypeError(`no method ${path}`);
  return (...args) => method.apply(owner, args);
}

/** Returns all items of a stream. Each item is also reported when it arrives. */
async function resultOf(wish: Extract<Wish, { readonly type: 'call' }>): Promise<unknown> {
  const { id, path, args, extension, isStream } = wish;
  const parameters = (args[0] ?? {}) as object;
  let result: unknown;
  if (extension === undefined) result = methodOf(path)(...args);
  else {
    const client = shared.extension(extension);
    result = isStream ? client.stream(path, parameters) : client.call(path, parameters);
  }
  if (typeof result !== 'object' || result === null || !(Symbol.asyncIterator in result)) {
    return await result;
  }
  const items: unknown[] = [];
  for await (const item of result as AsyncIterable<unknown>) {
    items.push(item);
    sendMessage({ type: 'item', id, item });
  }
  return items;
}

/** Publishes jobs at a steady rate, each to the next minion. Reports each acknowledged job. */
async function publishSteadily(perSecond: number, minions: readonly string[]): Promise<void> {
  const pending = new Set<Promise<void>>();
  const publish = async (minion: string): Promise<void> => {
    const from = Date.now();
    try {
      const request = { tgt: [minion], tgtType: 'list', fun: 'test.ping' };
      const { jid } = await shared.jobs.publish(request);
      sendMessage({ type: 'published', jid, from, to: Date.now() });
    } catch (error) {
      sendMessage({
        type: 'refused',
        from,
        to: Date.now(),
        reason: String(error),
        code: codeOf(error),
      });
    }
  };
  const begun = performance.now();
  for (let count = 0; isPublishing; count += 1) {
    const wait = begun + (count * 1000) / perSecond - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    const one: Promise<void> = publish(minions[count % minions.length] ?? '').finally(() =>
      pending.delete(one),
    );
    pending.add(one);
  }
  await Promise.all(pending);
  sendMessage({ type: 'quiet' });
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

let isPublishing = false;

process.on('message', (wish: Wish) => {
  switch (wish.type) {
    case 'call':
      resultOf(wish).then(
        (result) => sendMessage({ type: 'result', id: wish.id, result: result ?? null }),
        (error: unknown) =>
          sendMessage({ type: 'failed', id: wish.id, code: codeOf(error), reason: String(error) }),
      );
      return;
    case 'publish':
      isPublishing = true;
      void publishSteadily(wish.perSecond, wish.minions);
      return;
    case 'rest':
      isPublishing = false;
      return;
    case 'close':
      void shared.close().then(() => process.exit(0));
  }
});
process.once('disconnect', () => process.exit(0));

try {
  await shared.start();
  sendMessage({ type: 'started', role: shared.role });
} catch (error) {
  sendMessage({ type: 'failed', id: 0, code: codeOf(error), reason: String(error) });
}
