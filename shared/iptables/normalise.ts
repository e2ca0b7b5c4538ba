// One form for every way of writing a rule: what was written and what iptables-save prints of it, on either back end, become the
// same text. Made for comparing, not for loading.

import type { Rule } from './ruleset.ts';

/** An option with its `!` and its values. */
interface Option {
  readonly negated: boolean;
  readonly name: string;
  readonly values: readonly string[];
}

/** Options of the rule itself, by their other names. */
const GENERAL: Readonly<Record<string, string>> = {
  '--source': '-s',
  '--src': '-s',
  '--destination': '-d',
  '--dst': '-d',
  '--protocol': '-p',
  '--proto': '-p',
  '--in-interface': '-i',
  '--out-interface': '-o',
  '--jump': '-j',
  '--goto': '-g',
  '--match': '-m',
};

/** The rule's general options, its matches and its target, each sorted, with values as the kernel keeps them. */
export function normaliseRule(rule: Rule): string {
  const general: string[] = [];
  const target: string[] = [];
  const matches = new Map<string, string[]>();
  let current = target;
  for (const option of optionsOf(splitArguments(rule))) {
    const { name, values } = option;
    if (name === '-m') current = matchOf(matches, values[0] ?? '');
    else if (name === '-j' || name === '-g') {
      target.unshift(printOption(option));
      current = target;
    } else if (name.startsWith('--')) current.push(printOption(normaliseValues(option)));
    else if (!isEverything(option)) general.push(printOption(normaliseAddress(option)));
  }
  const [jump = '', ...targetOptions] = target;
  const groups = [...matches].map(([name, options]) => [`-m ${name}`, ...options.sort()].join(' '));
  return [...general.sort(), ...groups.sort(), jump, ...targetOptions.sort()].join(' ').trim();
}

/** A rule's arguments as iptables-restore splits them: white space apart, quotes taken off, `\` taken literally inside them only. */
export function splitArguments(rule: Rule): string[] {
  if (!rule.includes('"')) return rule.split(/\s+/).filter((word) => word !== '');
  return [...rule.matchAll(/"((?:[^"\\]|\\.)*)"|\S+/gs)].map(([word, quoted]) => quoted?.replace(/\\(.)/gs, '$1') ?? word);
}

function optionsOf(words: readonly string[]): Option[] {
  const options: { negated: boolean; name: string; values: string[] }[] = [];
  let negated = false;
  for (const [index, word] of words.entries()) {
    const open = options.at(-1);
    if (word === '!' && words[index + 1]?.startsWith('-') === true) negated = true;
    else if (isOptionName(word) && !takesAnyValue(open)) {
      options.push({ negated, name: GENERAL[word] ?? word, values: [] });
      negated = false;
    } else open?.values.push(word);
  }
  return options;
}

function isOptionName(word: string): boolean {
  return /^--?[a-z]/i.test(word);
}

/** A comment may look like an option. */
function takesAnyValue(open: { readonly name: string; readonly values: readonly string[] } | undefined): boolean {
  return open?.name === '--comment' && open.values.length === 0;
}

function matchOf(matches: Map<string, string[]>, name: string): string[] {
  const known = matches.get(name);
  if (known !== undefined) return known;
  const options: string[] = [];
  matches.set(name, options);
  return options;
}

function isEverything({ name, values }: Option): boolean {
  return (name === '-s' || name === '-d') && values[0]?.endsWith('/0') === true;
}

function normaliseAddress(option: Option): Option {
  const [value = ''] = option.values;
  if ((option.name !== '-s' && option.name !== '-d') || value.includes('/')) return option;
  return { ...option, values: [`${value}/${value.includes(':') ? 128 : 32}`] };
}

function normaliseValues(option: Option): Option {
  const [value = ''] = option.values;
  switch (option.name) {
    case '--probability':
      return { ...option, values: [keptProbability(value)] };
    case '--ctstate':
      return { ...option, values: [value.split(',').sort().join(',')] };
    case '--mark':
      return { ...option, values: [maskedNumber(value, 0xffffffff)] };
    case '--set-xmark':
    case '--set-mark':
      return { ...option, name: '--set-xmark', values: [maskedNumber(value, 0xffffffff)] };
    case '--or-mark':
      return { ...option, name: '--set-xmark', values: [`${hexOf(Number(value))}/${hexOf(Number(value))}`] };
    case '--xor-mark':
      return { ...option, name: '--set-xmark', values: [`${hexOf(Number(value))}/0x0`] };
    case '--and-mark':
      return { ...option, name: '--set-xmark', values: [`0x0/${hexOf(~Number(value))}`] };
    default:
      return option;
  }
}

/** The kernel keeps a probability in 31 bits; iptables-save prints what it kept with eleven decimals. */
function keptProbability(text: string): string {
  const steps = 2 ** 31;
  return (Math.round(Number(text) * steps) / steps).toFixed(11);
}

function maskedNumber(text: string, wholeMask: number): string {
  const [value = '', mask] = text.split('/');
  return `${hexOf(Number(value))}/${hexOf(mask === undefined ? wholeMask : Number(mask))}`;
}

function hexOf(number: number): string {
  return `0x${(number >>> 0).toString(16)}`;
}

function printOption({ negated, name, values }: Option): string {
  const words = values.map((value) => (/[\s"]/.test(value) || value === '' ? JSON.stringify(value) : value));
  return [...(negated ? ['!'] : []), name, ...words].join(' ');
}
