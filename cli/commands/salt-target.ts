import { type Command, Option } from 'commander';
import type { TargetRequest } from '#master';

/** Options that determine the target. */
export type TargetOptions = { readonly delimiter?: string } & Readonly<
  Partial<Record<TargetFlag['name'], boolean>>
>;

interface TargetFlag {
  /** Name of the option in commander's result. */
  readonly name:
    | 'pcre'
    | 'list'
    | 'grain'
    | 'grainPcre'
    | 'nodegroup'
    | 'pillar'
    | 'pillarPcre'
    | 'compound'
    | 'ipcidr'
    | 'range';
  readonly flags: string;
  readonly tgtType: string;
  readonly description: string;
}

/** Salt's flags [salt utils/parsers.py ExtendedTargetOptionsMixIn]. */
const targetFlags: readonly TargetFlag[] = [
  {
    name: 'pcre',
    flags: '-E, --pcre',
    tgtType: 'pcre',
    description: 'the target is a regular expression on minion ids',
  },
  {
    name: 'list',
    flags: '-L, --list',
    tgtType: 'list',
    description: 'the target is a list of minion ids, separated by commas or spaces',
  },
  {
    name: 'grain',
    flags: '-G, --grain',
    tgtType: 'grain',
    description: 'the target is a grain and a glob on its value: os:Debian',
  },
  {
    name: 'grainPcre',
    flags: '-P, --grain-pcre',
    tgtType: 'grain_pcre',
    description: 'the target is a grain and a regular expression on its value',
  },
  {
    name: 'nodegroup',
    flags: '-N, --nodegroup',
    tgtType: 'nodegroup',
    description: "the target is the name of a nodegroup in the master's configuration",
  },
  {
    name: 'range',
    flags: '-R, --range',
    tgtType: 'range',
    description: 'the target is a range expression, which is not supported and matches no minion',
  },
  {
    name: 'compound',
    flags: '-C, --compound',
    tgtType: 'compound',
    description: "the target is a compound expression: 'G@os:Debian and not web*'",
  },
  {
    name: 'pillar',
    flags: '-I, --pillar',
    tgtType: 'pillar',
    description: 'the target is a pillar key and a glob on its value: role:web',
  },
  {
    name: 'pillarPcre',
    flags: '-J, --pillar-pcre',
    tgtType: 'pillar_pcre',
    description: 'the target is a pillar key and a regular expression on its value',
  },
  {
    name: 'ipcidr',
    flags: '-S, --ipcidr',
    tgtType: 'ipcidr',
    description: 'the target is an IP address or a network',
  },
];

/**
 * Message for the flag `-R`, which saltbridge does not support: `salt -R` matches no minion, as in
 * Salt without the package seco.range. `salt-cp -R` is rejected.
 */
export const rangeProblem =
  'range expressions are not supported: list the minions with -L, or use a nodegroup with -N';

/** Sorts the long flags of targets into Salt's order. */
export function inOrderOfFlags(flags: readonly string[]): string[] {
  const place = (flag: string): number => targetFlags.findIndex((it) => it.flags.endsWith(flag));
  return flags.toSorted((left, right) => place(left) - place(right));
}

/**
 * Adds the options that select the type of the target: all of these options, or only those in
 * `names`. A command line may contain at most one of them. Also adds `--delimiter`.
 */
export function addTargetOptions(
  command: Command,
  names: readonly TargetFlag['name'][] = targetFlags.map(({ name }) => name),
): Command {
  for (const { name, flags, description } of targetFlags) {
    if (!names.includes(name)) continue;
    const others = names.filter((other) => other !== name);
    command.addOption(new Option(flags, description).conflicts(others));
  }
  return command.option(
    '--delimiter <text>',
    'separator of nested keys of grains and pillar (default: :)',
  );
}

/** Returns the target of a command line, with its type. */
export function toTarget(tgt: string, options: TargetOptions): TargetRequest {
  const { delimiter } = options;
  const tgtType = targetFlags.find(({ name }) => options[name])?.tgtType ?? 'glob';
  return {
    tgt: tgtType === 'list' ? splitList(tgt) : tgt,
    tgtType,
    ...(delimiter === undefined ? {} : { delimiter }),
  };
}

/** Splits a comma-separated list of ids [salt utils/parsers.py SaltCMDOptionParser]. */
function splitList(tgt: string): string[] {
  return tgt.includes(',') ? tgt.replaceAll(' ', '').split(',') : tgt.trim().split(/\s+/);
}
