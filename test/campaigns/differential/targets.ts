/** Generates random targets of all types for a few minions. */

import type { Random } from '../random.ts';

/** A target with its type. */
export interface TargetQuestion {
  readonly tgt: string;
  readonly tgtType: string;
}

/**
 * Grains and pillar of the minions. `null`: the minion is accepted, and nothing is known about it.
 */
export const targetMinions: Readonly<Record<string, unknown>> = {
  web1: {
    grains: {
      os: 'Debian',
      roles: ['web', 'db'],
      num: 1,
      deep: { a: { b: 'c' } },
      host: 'a:b',
      ipv4: ['10.0.0.1', '127.0.0.1'],
      ipv6: ['fe80::1'],
      none: null,
      yes: true,
      f: 1.0,
    },
    pillar: { role: 'front', list: ['a', 'b'], map: { k: 'v' } },
  },
  web2: {
    grains: { os: 'RedHat', roles: ['web'], num: 2, ipv4: ['10.0.1.2'], ipv6: [], yes: false },
    pillar: { role: 'back' },
  },
  'db-1.example.org': {
    grains: { os: 'Debian', roles: [], deep: { a: 'x' }, ipv4: [] },
    pillar: {},
  },
  Edge: { grains: {}, pillar: { role: '' } },
  new1: null,
};

/** Nodegroups of the master. Some refer to others. */
export const targetNodegroups: Readonly<Record<string, string | readonly string[]>> = {
  front: 'web*',
  both: 'N@front or db*',
  list: ['web1', 'Edge'],
  grain: 'G@os:Debian and not web2',
  words: ['web1', 'or', 'N@grain'],
};

const globs = [
  '*',
  'web*',
  'web?',
  'web[12]',
  'web[!1]',
  'db-1.example.org',
  '*.org',
  'Edge',
  'edge',
  'nobody',
  'web[',
  '',
  'new*',
  '[wn]e*',
  'web1,web2',
] as const;
const facts = [
  'os:Debian',
  'os:deb*',
  'os:*',
  'roles:web',
  'roles:*',
  'num:1',
  'num:1.0',
  'deep:a:b:c',
  'deep:a:*',
  'deep:*',
  'host:a:b',
  'none:None',
  'yes:True',
  'yes:true',
  'f:1.0',
  'f:1',
  'nope:x',
  'os',
  'os:',
  ':',
  'ipv4:10.*',
  'role:front',
  'role:',
  'list:a',
  'map:k:v',
  'map:k',
  'role:*',
] as const;
const expressions = [
  'web\\d',
  'w.*',
  '.*',
  'web[12]$',
  'db-1\\.example',
  '(',
  '^Edge',
  'web1|Edge',
  '',
] as const;
const factExpressions = [
  'os:^D',
  'os:.*a.*',
  'roles:w',
  'deep:a:b:.',
  'num:\\d',
  'role:^f',
  'os:(',
  'nope:.*',
  'list:[ab]',
] as const;
const networks = [
  '10.0.0.0/8',
  '10.0.0.1',
  '127.0.0.1',
  'fe80::/10',
  'fe80::1',
  '10.0.0.0/33',
  'x',
  '0.0.0.0/0',
  '10.0.0.1/24',
] as const;

/** Generates one target. */
export function target(random: Random): TargetQuestion {
  switch (random.below(9)) {
    case 0:
      return { tgt: random.of(globs), tgtType: 'glob' };
    case 1:
      return { tgt: random.of(expressions), tgtType: 'pcre' };
    case 2:
      return { tgt: random.of(facts), tgtType: random.of(['grain', 'pillar', 'pillar_exact']) };
    case 3:
      return { tgt: random.of(factExpressions), tgtType: random.of(['grain_pcre', 'pillar_pcre']) };
    case 4:
      return { tgt: random.of(networks), tgtType: 'ipcidr' };
    case 5:
      return {
        tgt: `N@${random.of(['front', 'both', 'list', 'grain', 'words'])}`,
        tgtType: 'compound',
      };
    case 6:
      return {
        tgt: Array.from({ length: 1 + random.below(3) }, () => random.of(globs)).join(','),
        tgtType: 'list',
      };
    default:
      return { tgt: compound(random), tgtType: 'compound' };
  }
}

function term(random: Random): string {
  switch (random.below(9)) {
    case 0:
      return `G@${random.of(facts)}`;
    case 1:
      return `P@${random.of(factExpressions)}`;
    case 2:
      return `I@${random.of(facts)}`;
    case 3:
      return `${random.of(['J', 'S', 'E', 'L', 'N'])}@${random.of(['role:^f', '10.0.0.0/8', 'web\\d', 'web1,Edge', 'front', 'both'])}`;
    case 4:
      return `G${random.of(['|', ';'])}@${random.of(['os|Debian', 'deep;a;b;c', 'os:Debian'])}`;
    default:
      return random.of(globs);
  }
}

function compound(random: Random): string {
  const words: string[] = [];
  const count = 1 + random.below(4);
  for (let index = 0; index < count; index += 1) {
    if (index > 0 && random.below(12) > 0)
      words.push(random.of(['and', 'or', 'and not', 'or not']));
    if (index === 0 && random.below(6) === 0) words.push('not');
    const isGroup = random.below(6) === 0;
    words.push(
      isGroup ? `( ${term(random)} ${random.of(['and', 'or'])} ${term(random)} )` : term(random),
    );
  }
  return words.join(random.below(15) === 0 ? '  ' : ' ');
}
