import { type OptionKind, oneOf } from './option-kinds.ts';

/** What minions ask for that rules decide. */
export type LearnAction = 'signal' | 'publish' | 'runner' | 'mine' | 'file-send' | 'key';

const word = oneOf<LearnAction>(['signal', 'publish', 'runner', 'mine', 'file-send', 'key']);

/** A list of actions. */
export const learnActions: OptionKind<readonly LearnAction[]> = {
  expected: `a list, each ${word.expected}`,
  isPath: false,
  parse: (value) => {
    const list: unknown[] = Array.isArray(value) ? value : [value];
    const words = list.map((item) => word.parse(item)).filter((item) => item !== undefined);
    return words.length === list.length ? words : undefined;
  },
};
