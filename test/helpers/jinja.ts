/** Renders templates that are given as texts. */

import {
  parseTemplate,
  type RenderOptions,
  renderJinja,
  type SaltFunction,
  SaltFunctions,
} from '#template';

export interface TextOptions extends Omit<RenderOptions, 'loader'> {
  /** Name of the template. Default: `web/init.sls`. */
  readonly name?: string;
  readonly trimBlocks?: boolean;
  readonly lstripBlocks?: boolean;
  /** Returns the texts of further templates. Default: there are none. */
  readonly loader?: { load(name: string): string | undefined };
  /** Functions of `salt`. Default: `salt` is not defined. */
  readonly functions?: Readonly<Record<string, SaltFunction>>;
}

/**
 * Parses and renders a template.
 * @throws TemplateError
 */
export function renderText(source: string, options: TextOptions = {}): string {
  const { name = 'web/init.sls', trimBlocks, lstripBlocks, loader, functions, ...more } = options;
  const parse = (text: string, file: string): ReturnType<typeof parseTemplate> =>
    parseTemplate(text, {
      name: file,
      ...(trimBlocks === undefined ? {} : { trimBlocks }),
      ...(lstripBlocks === undefined ? {} : { lstripBlocks }),
    });
  const salt = functions && new SaltFunctions(functions, () => 'see docs/compatibility.md');
  return renderJinja(parse(source, name), {
    ...more,
    ...(salt === undefined ? {} : { context: { ...more.context, salt } }),
    loader: {
      load: (file) => {
        const text = loader?.load(file);
        return text === undefined ? undefined : parse(text, file);
      },
    },
  });
}
