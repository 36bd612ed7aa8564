/**
 * Starts a bridge behind Salt's HTTP API. Its user `limited` may run demo commands on web minions.
 */
import type { ExecutionContext } from 'ava';
import { allow } from '#acl';
import { createBridge } from '#guests';
import { type ApiAnswer, type ApiSetup, type RunningApi, startApi } from '../helpers/salt-api.ts';
import { acl, echo, twice } from './stage.ts';

const rule = allow('limited', {
  subject: { user: 'limited' },
  action: 'command',
  resource: { fun: 'demo.*', within: 'web*' },
});

export async function startBridgeApi(
  t: ExecutionContext,
  { options, functions }: Pick<ApiSetup, 'options' | 'functions'> = {},
): Promise<RunningApi & { readonly bridge: ReturnType<typeof createBridge> }> {
  const later = { ...echo, name: 'demo.later', within: 'web*' };
  const other = { ...echo, name: 'other.echo' };
  const mixed = {
    ...twice,
    name: 'demo.undone',
    steps: { one: { command: 'demo.echo', group: 'all', undo: { command: 'other.echo' } } },
  };
  const bridge = createBridge({ commands: [echo, later, other], plans: [twice, mixed] });
  const running = await startApi(t, {
    config: { acl: acl([rule]) },
    extensions: [bridge],
    // The parts of the bridge exist when the master has started.
    options: { ...options, plugins: [bridge.http] },
    functions: { 'test.echo': ({ kwargs: { text } }) => text ?? null, ...functions },
  });
  return { ...running, bridge };
}

/** Parses the updates of a run, one per line. */
export function lines({
  text,
}: ApiAnswer): { readonly type: string; readonly [key: string]: unknown }[] {
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}
