/** Target types of Salt's clients: which are supported, and how they differ from Salt. */

/** Status of a target type. */
export interface TargetTypeRow {
  readonly name: string;
  readonly status: 'served' | 'different' | 'refused';
  /**
   * For the status `different`: the difference from Salt. For `refused`: advice for the user. For
   * `served`: empty.
   */
  readonly text: string;
}

const ownPillar =
  'waits for the minions whose last fetched pillar matches; in Salt, for those whose pillar in the data cache matches';

/** All target types, in the order of the options of `salt`. */
export const targetTypeRows: readonly TargetTypeRow[] = [
  { name: 'glob', status: 'served', text: '' },
  { name: 'pcre', status: 'served', text: '' },
  { name: 'list', status: 'served', text: '' },
  { name: 'grain', status: 'served', text: '' },
  { name: 'grain_pcre', status: 'served', text: '' },
  { name: 'pillar', status: 'different', text: ownPillar },
  { name: 'pillar_exact', status: 'different', text: ownPillar },
  { name: 'pillar_pcre', status: 'different', text: ownPillar },
  { name: 'ipcidr', status: 'served', text: '' },
  { name: 'compound', status: 'served', text: '' },
  {
    name: 'nodegroup',
    status: 'different',
    text: 'a list that contains itself, such as `a: [m1, N@a]`, matches no minion; in Salt, it matches the other ids',
  },
  {
    name: 'range',
    status: 'refused',
    text: 'use list or nodegroup; salt -R matches no minion, as in Salt without seco.range',
  },
];

/** Returns the error message for a target type that is not supported, with advice. */
export function targetTypeProblem(name: string): string {
  const row = targetTypeRows.find((it) => it.name === name);
  const types = targetTypeRows.filter(({ status }) => status !== 'refused');
  const advice = row?.text ?? `use ${types.map((it) => it.name).join(', ')}`;
  return `tgt_type "${name}" is not supported; ${advice}`;
}
