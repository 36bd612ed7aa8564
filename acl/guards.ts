import type { BuiltInRule } from './types.ts';

export const publishGuards: readonly BuiltInRule<'publish'>[] = [
  {
    name: 'no-publishing-of-publishing',
    effect: 'deny',
    judge: ({ subject, resource }) =>
      subject.kind === 'minion' && resource.calls.some(({ fun }) => fun.startsWith('publish.'))
        ? 'a minion must not publish a function of the module `publish`, because this function would publish further jobs'
        : undefined,
  },
];

export const mineGuards: readonly BuiltInRule<'mine'>[] = [
  {
    name: 'allow_tgt',
    effect: 'deny',
    judge: ({ resource }) =>
      resource.isAllowedByOwner?.() === false
        ? 'the minion that stored the mine data does not permit this minion to read it (allow_tgt)'
        : undefined,
  },
];
