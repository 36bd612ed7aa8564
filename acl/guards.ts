import type { BuiltInRule } from './types.ts';

export const publishGuards: readonly BuiltInRule<'publish'>[] = [
  {
    name: 'no-publishing-of-publishing',
    effect: 'deny',
    judge: ({ subject, resource }) =>
      subject.kind === 'minion' && resource.calls.some(({ fun }) => fun.startsWith('publish.'))
        ? 'a published job may not publish another'
        : undefined,
  },
];

export const mineGuards: readonly BuiltInRule<'mine'>[] = [
  {
    name: 'allow_tgt',
    effect: 'deny',
    judge: ({ resource }) =>
      resource.isAllowedByOwner?.() === false
        ? 'its owner does not share it with this minion'
        : undefined,
  },
];
