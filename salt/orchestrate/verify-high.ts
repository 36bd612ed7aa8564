/** Validates high data, with Salt's messages [salt/state.py verify_high]. */

import type { PlainData } from '#template';
import { isList, isPillarMap } from '../render/pillar-data.ts';
import { textOf } from '../render/pillar-wire.ts';
import { type Body, firstOf, type High, typeName } from './high-data.ts';

export function verifyHigh({ bodies }: High): string[] {
  const circles = new Circles();
  return [...bodies].flatMap(([id, body]) => [
    ...verifyId(id, body),
    ...[...body.states].flatMap(([state, said]) =>
      new Declaration({ id: textOf(id), sls: body.sls, state }, circles).verify(said),
    ),
  ]);
}

function verifyId(id: PlainData, { sls }: Body): string[] {
  if (typeof id === 'string') return [];
  return [
    `ID '${textOf(id)}' in SLS '${sls}' is not formed as a string, but is a ${typeName(id)}. ` +
      'It may need to be quoted.',
  ];
}

/** Location of an error. */
interface Place {
  readonly id: string;
  readonly sls: string;
  readonly state: string;
}

const verifiedRequisites: ReadonlySet<string> = new Set([
  'require',
  'watch',
  'prereq',
  'onchanges',
]);

/** Validates the declaration of one state under an id. */
class Declaration {
  readonly #place: Place;
  readonly #circles: Circles;
  readonly #errors: string[] = [];

  constructor(place: Place, circles: Circles) {
    this.#place = place;
    this.#circles = circles;
  }

  verify(said: PlainData): readonly string[] {
    const { id, sls, state } = this.#place;
    if (state.startsWith('__')) return [];
    if (said === null) {
      this.#errors.push(
        `ID '${id}' in SLS '${sls}' contains a short declaration (${state}) with a trailing ` +
          'colon. When not passing any arguments to a state, the colon must be omitted.',
      );
    } else if (!isList(said)) {
      this.#errors.push(`State '${id}' in SLS '${sls}' is not formed as a list`);
    } else this.#verifyList(said);
    return this.#errors;
  }

  #verifyList(said: readonly PlainData[]): void {
    const { id, sls, state } = this.#place;
    for (const argument of said) {
      if (typeof argument === 'string') this.#verifyFunction(argument);
      else this.#verifyArgument(argument);
    }
    const [, inName] = state.split(/\.(.*)/s);
    const given = said.filter((argument) => typeof argument === 'string');
    const functions = inName === undefined ? given : [inName, ...given];
    if (functions.length === 0 && state !== 'require' && state !== 'watch') {
      this.#errors.push(`No function declared in state '${id}' in SLS '${sls}'`);
    }
    if (functions.length > 1) {
      this.#errors.push(
        `Too many functions declared in state '${id}' in SLS '${sls}'. ` +
          `Please choose one of the following: ${functions.join(', ')}`,
      );
    }
  }

  #verifyFunction(name: string): void {
    if (!name.trim().includes(' ')) return;
    const { id, sls } = this.#place;
    this.#errors.push(
      `The function "${name}" in state "${id}" in SLS "${sls}" has whitespace, a function with ` +
        'whitespace is not supported, perhaps this is an argument that is missing a ":"',
    );
  }

  #verifyArgument(argument: PlainData): void {
    const first = firstOf(argument);
    if (first === undefined) return;
    const [key, value] = first;
    const { id, sls } = this.#place;
    if (key === 'names' && !isList(value)) {
      this.#errors.push(
        `The 'names' argument in state '${id}' in SLS '${sls}' needs to be formed as a list`,
      );
    }
    if (!verifiedRequisites.has(key)) return;
    if (isList(value)) this.#verifyRequisites(value);
    else {
      this.#errors.push(
        `The ${key} statement in state '${id}' in SLS '${sls}' needs to be formed as a list`,
      );
    }
    if (isPillarMap(argument) && argument.size !== 1) {
      this.#errors.push(
        `Multiple dictionaries defined in argument of state '${id}' in SLS '${sls}'`,
      );
    }
  }

  #verifyRequisites(items: readonly PlainData[]): void {
    const { id, sls, state } = this.#place;
    this.#circles.begin(id, state);
    for (const item of items) {
      const [kind, name] = (typeof item === 'string' ? ['id', item] : firstOf(item)) ?? [];
      if (kind === undefined || name === undefined) {
        this.#errors.push(
          `Requisite declaration ${textOf(item)} in SLS ${sls} is not formed as a single key ` +
            'dictionary',
        );
        continue;
      }
      if (kind.includes('.')) {
        this.#errors.push(
          `Invalid requisite type '${kind}' in state '${id}', in SLS '${sls}'. Requisite types ` +
            `must not contain dots, did you mean '${kind.slice(0, kind.indexOf('.'))}'?`,
        );
      }
      if (isList(name)) {
        this.#errors.push(`Illegal requisite "${textOf(name)}", please check your syntax.\n`);
      } else if (this.#circles.closes(id, kind, textOf(name))) {
        this.#errors.push(
          `A recursive requisite was found, SLS "${sls}" ID "${id}" ID "${textOf(name)}"`,
        );
      }
    }
  }
}

/** Detects pairs of ids that require each other. Longer cycles are detected when the states run. */
class Circles {
  readonly #states = new Map<string, string>();
  readonly #requisites = new Map<string, Map<string, string>>();

  /**
   * Begins a list of requisites of an id. A list recorded earlier for the id is discarded, because
   * Salt also checks only the last list of an id.
   */
  begin(id: string, state: string): void {
    this.#states.set(id, state);
    this.#requisites.set(id, new Map());
  }

  closes(id: string, kind: string, name: string): boolean {
    this.#requisites.get(id)?.set(name, kind);
    const back = this.#requisites.get(name)?.get(id);
    return back !== undefined && back === this.#states.get(id) && this.#states.get(name) === kind;
  }
}
