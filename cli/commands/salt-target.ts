import { type Command, Option } from 'commander';
import type { TargetRequest } from '#master';

/** What the options of a command say of its target. */
export type TargetOptions = { readonly delimiter?: string } & Readonly<
  Partial<Record<TargetFlag['name'], boolean>>
>;

interface TargetFlag {
  /** As commander names it. */
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
    description: 'tgt is a regular expression on ids',
  },
  {
    name: 'list',
    flags: '-L, --list',
    tgtType: 'list',
    description: 'tgt is a list of ids, separated by commas or spaces',
  },
  {
    name: 'grain',
    flags: '-G, --grain',
    tgtType: 'grain',
    description: 'tgt is a grain and a glob: os:Debian',
  },
  {
    name: 'grainPcre',
    flags: '-P, --grain-pcre',
    tgtType: 'grain_pcre',
    description: 'tgt is a grain and a regular expression',
  },
  {
    name: 'nodegroup',
    flags: '-N, --nodegroup',
    tgtType: 'nodegroup',
    description: "tgt is a name in the master's nodegroups",
  },
  {
    name: 'range',
    flags: '-R, --range',
    tgtType: 'range',
    description: 'tgt is a range expression; not served: it matches no minion',
  },
  {
    name: 'compound',
    flags: '-C, --compound',
    tgtType: 'compound',
    description: "tgt is an expression: 'G@os:Debian and not web*'",
  },
  {
    name: 'pillar',
    flags: '-I, --pillar',
    tgtType: 'pillar',
    description: 'tgt is a pillar key and a glob: role:web',
  },
  {
    name: 'pillarPcre',
    flags: '-J, --pillar-pcre',
    tgtType: 'pillar_pcre',
    description: 'tgt is a pillar key and a regular expression',
  },
  {
    name: 'ipcidr',
    flags: '-S, --ipcidr',
    tgtType: 'ipcidr',
    description: 'tgt is an address or a network',
  },
];

/** What `-R` is answered with: Salt's own matches nobody either where seco.range is not installed. */
export const rangeProblem =
  'range expressions are not served; name the minions by -L, or by -N and a nodegroup';

/** Long flags of targets, in the order in which Salt names them. */
export function inOrderOfFlags(flags: readonly string[]): string[] {
  const place = (flag: string): number => targetFlags.findIndex((it) => it.flags.endsWith(flag));
  return flags.toSorted((left, right) => place(left) - place(right));
}

/** Adds the options that say what `tgt` is, all unless some are named; a command takes one at most. */
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

/** The target that the command line names. */
export function toTarget(tgt: string, options: TargetOptions): TargetRequest {
  const { delimiter } = options;
  const tgtType = targetFlags.find(({ name }) => options[name])?.tgtType ?? 'glob';
  return {
    tgt: tgtType === 'list' ? splitList(tgt) : tgt,
    tgtType,
    ...(delimiter === undefined ? {} : { delimiter }),
  };
}

/** [salt utils/parsers.py SaltCMDOptionParser] */
function splitList(tgt: string): string[] {
  return tgt.includes(',') ? tgt.replaceAll(' ', '').split(',') : tgt.trim().split(/\s+/);
}
