/** Source files of pillar and SLS, parsed once. */

import { parseTemplate, type Template } from '#template';

/** What tells a file that was read from all others. */
export interface SourceText {
  /** Below its root. */
  readonly path: string;
  /** Tells this content from every other. */
  readonly digest: string;
  readonly text: string;
}

/** A file as it was when it was read. */
export interface SourceFile extends SourceText {
  /** Parsed once. @throws TemplateError */
  template(): Template;
}

/** How templates are read. */
export interface TemplateWhitespace {
  /** `jinja_trim_blocks`. */
  readonly trimBlocks: boolean;
  /** `jinja_lstrip_blocks`. */
  readonly lstripBlocks: boolean;
}

/** @param onParse called before it is parsed */
export function toSourceFile(
  { path, digest, text }: SourceText,
  whitespace: TemplateWhitespace,
  onParse: () => void = () => {},
): SourceFile {
  let template: Template | undefined;
  return {
    path,
    digest,
    text,
    template: () => {
      if (template !== undefined) return template;
      onParse();
      template = parseTemplate(text, { ...whitespace, name: path });
      return template;
    },
  };
}

/** @param file below its root: `web/init.sls` */
export function slsNames(file: string): Readonly<Record<string, string>> {
  const directory = file.includes('/') ? file.slice(0, file.lastIndexOf('/')) : '';
  return {
    slspath: directory,
    slsdotpath: directory.replaceAll('/', '.'),
    slscolonpath: directory.replaceAll('/', ':'),
    sls_path: directory.replaceAll('/', '_'),
  };
}
